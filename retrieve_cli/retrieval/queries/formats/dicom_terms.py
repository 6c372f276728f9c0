"""DICOM's codes for modalities and body parts; a text in neither list may be a name, and is dropped."""

from __future__ import annotations

from retrieve_cli.contracts.terms.modalities import DICOM_CODES as MODALITIES

__all__ = ["BODY_PARTS", "MODALITIES", "SLICED"]

SLICED = frozenset({"CT", "MRI", "PET", "nuclear-medicine", "OCT"})
"""Modalities of which a series of pictures is a volume."""
VOLUMETRIC = frozenset({"CT", "MRI", "PET"})
"""Modalities of which a single picture is a slice of a volume, unless its header marks it as a projection. Of the
other sliced ones a single picture is often all there is: a scintigram, a photograph of the retina's layers."""
PROJECTIONS = ("LOCALIZER", "SCOUT", "TOPOGRAM", "PROJECTION", "MIP", "MINIP", "SCREEN", "DOSE")
"""Beginnings of values of Image Type (PS3.3, C.7.6.1.1.2) of pictures that are not slices: an overview, a
projection through a volume (`PROJECTION IMAGE`), a screenshot or a table of doses."""
CAPTURE = "1.2.840.10008.5.1.4.1.1.7"
"""Secondary Capture, which is of any modality: a screenshot or a scan of paper."""
BODY_PARTS = frozenset(
    """
    ABDOMEN ABDOMENPELVIS ACJOINT ADRENAL ANKLE ANUS AORTA ARM AXILLA BACK BILEDUCT BLADDER BRAIN BREAST BRONCHUS
    BUTTOCK CALCANEUS CALF CAROTID CEREBELLUM CERVIX CHEEK CHEST CHESTABDOMEN CHESTABDPELVIS CIRCLEOFWILLIS CLAVICLE
    COCCYX COLON CORNEA CORONARYARTERY CSPINE CTSPINE DUODENUM EAR ELBOW ESOPHAGUS EXTREMITY EYE EYELID FACE FEMUR
    FINGER FOOT GALLBLADDER HAND HEAD HEADNECK HEART HIP HUMERUS IAC ILEUM ILIUM JAW JEJUNUM KIDNEY KNEE LARYNX LEG
    LIVER LSPINE LSSPINE LUNG MAXILLA MEDIASTINUM MOUTH NECK NECKCHEST NECKCHESTABDOMEN NECKCHESTABDPELV NOSE ORBIT
    OVARY PANCREAS PAROTID PATELLA PELVIS PENIS PHARYNX PROSTATE RECTUM RETINA RIB SCALP SCAPULA SCLERA SCROTUM
    SHOULDER SKULL SPINE SPLEEN SSPINE STERNUM STOMACH SUBMANDIBULAR TESTIS THIGH THUMB THYMUS THYROID TLSPINE TMJOINT
    TOE TONGUE TRACHEA TSPINE URETER URETHRA UTERUS VAGINA VULVA WHOLEBODY WRIST ZYGOMA
    """.split()
)
"""PS3.16, annex L."""
