"""Names of the parts of papers and of drug labels, with the forms of each name."""

from __future__ import annotations

from retrieve_cli.sources.chunking.labels import Labels

_IMRAD_MAJOR = {
    "Abstract": r"(?:structured |graphical )?abstract",
    "Introduction": r"introduction|background",
    "Objective": r"(?:(?:study|research|main|primary|specific) )?(?:objectives?|aims?|purpose)"
    r"(?: of (?:the|this) study)?",
    "Methods": r"(?:(?:online|review|experimental|statistical|star|study|research) )?(?:methods?|methodology)"
    r"|study design|experimental (?:section|procedures?|design)",
    "Results": r"(?:(?:main|key|principal|primary|recent) )?(?:results?|findings?)",
    "Discussion": r"(?:general )?discussion",
    "Conclusion": r"(?:main )?conclusions?|concluding remarks",
}
"""Canonical names of the parts of a paper, with the forms of their headings (in any case). Two make a text IMRaD."""

_IMRAD_MINOR = {
    "Abstract": r"(?:executive )?summary|synopsis",
    "Introduction": r"rationale|context|importance",
    "Objective": r"goals?|hypothes[ie]s|(?:research )?questions?",
    "Methods": r"materials?|patients?|subjects?|participants?|settings?|interventions?|exposures?|measurements?"
    r"|(?:research |trial )?design|study (?:population|selection)|(?:statistical )?analys[ie]s|procedures?|approach"
    r"|data (?:sources?|collection|extraction)|search strategy|selection criteria|measures"
    r"|(?:(?:main|primary) )?outcomes?(?: measures?)?",
    "Results": r"data synthesis|observations?",
    "Discussion": r"interpretation|comments?|(?:strengths and )?limitations?",
    "Conclusion": r"relevance|significance|implications?",
    "References": r"references|bibliography|literature cited|acknowledge?ments?",
}
"""Names that also head a part in journals, but have another meaning in other texts."""

_DRUG_MAJOR = {
    "Boxed Warning": r"boxed warnings?",
    "Indications and Usage": r"(?:therapeutic )?indications?(?: (?:and|&) usage)?",
    "Dosage and Administration": r"dosage(?: (?:and|&) administration)?|posology(?: and method of administration)?",
    "Dosage Forms and Strengths": r"dosage forms?(?: (?:and|&) strengths?)?",
    "Contraindications": r"contra-?indications?",
    "Warnings and Precautions": r"warnings (?:and|&) precautions|(?:general |special )?warnings?|precautions",
    "Adverse Reactions": r"adverse (?:reactions?|effects?)|undesirable effects|side effects",
    "Drug Interactions": r"drug interactions?",
    "Use in Specific Populations": r"use in specific populations",
    "Drug Abuse and Dependence": r"drug abuse (?:and|&) dependence",
    "Overdosage": r"overdos(?:age|e)",
    "Clinical Pharmacology": r"clinical pharmacology",
    "Nonclinical Toxicology": r"non-?clinical toxicology",
    "How Supplied/Storage and Handling": r"how supplied(?:/storage (?:and|&) handling)?",
    "Patient Counseling Information": r"patient counseling information",
}
"""Sections of a prescription drug's label (21 CFR 201.57(c), and their older names in 201.80), with their forms."""

_DRUG_MINOR = {
    "Drug Interactions": r"interactions",
    "Description": r"description",
    "Clinical Studies": r"clinical (?:studies|trials)",
    "References": r"references",
    "How Supplied/Storage and Handling": r"(?:storage|package label)(?: (?:and|&) handling)?",
    "Patient Counseling Information": r"information for patients|patient information",
}

LABELS = {
    "imrad": Labels(_IMRAD_MAJOR, _IMRAD_MINOR, least=2),
    "drug_label": Labels(_DRUG_MAJOR, _DRUG_MINOR, least=1, numbered=True),
}
"""Labels for each kind of text, by the kind's name in the configuration."""
