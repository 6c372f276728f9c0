"""DICOM's codes for modalities and body parts; what is in neither list may be a name as well, and is left out."""

MODALITIES = {
    "CT": "CT",
    "MR": "MRI",
    "PT": "PET",
    "NM": "nuclear-medicine",
    "US": "US",
    "IVUS": "US",
    "BDUS": "US",
    "CR": "X-ray",
    "DX": "X-ray",
    "RG": "X-ray",
    "RF": "X-ray",
    "XA": "X-ray",
    "IO": "X-ray",
    "PX": "X-ray",
    "MG": "mammography",
    "OP": "fundus-photography",
    "OPT": "OCT",
    "IVOCT": "OCT",
    "SM": "histopathology",
    "GM": "microscopy",
    "ES": "endoscopy",
    "XC": "photography",
    "ECG": "ECG",
    "EEG": "EEG",
    "SEG": "segmentation",
    "REG": "registration",
    "SR": "structured-report",
    "RTDOSE": "RTDOSE",
    "RTIMAGE": "RTIMAGE",
    "RTPLAN": "RTPLAN",
    "RTSTRUCT": "RTSTRUCT",
}
"""PS3.3, C.7.3.1.1.1, with the names that people use."""
SLICED = frozenset({"CT", "MRI", "PET", "nuclear-medicine", "OCT"})
"""Modalities of which a series of pictures is a volume."""
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
