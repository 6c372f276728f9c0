"""Words, names and patterns of which titles and abstracts of publications that do not exist are made."""

TOPICS = """
hippocampal neurogenesis|synaptic plasticity|tumor angiogenesis|epithelial migration|hematopoietic stem cells|
microglial activation|insulin secretion|lipid metabolism|autophagic flux|DNA mismatch repair|chromatin accessibility|
telomere maintenance|ribosome stalling|mitochondrial fission|calcium signaling|wound healing|bone remodeling|
neural crest migration|axon guidance|retinal degeneration|cardiac fibrosis|renal ischemia|pulmonary edema|
hepatic steatosis|intestinal permeability|skin pigmentation|vascular calcification|platelet aggregation|
T cell exhaustion|B cell maturation|antigen presentation|cytokine release|viral latency|biofilm formation|
quorum sensing|nitrogen fixation|root architecture|photosynthetic efficiency|drought tolerance|seed dormancy|
pollinator behavior|predator avoidance|coral bleaching|soil respiration|river sedimentation|glacier retreat|
ocean acidification|aerosol nucleation|monsoon variability|seismic anisotropy|mantle convection|crystal nucleation|
polymerization kinetics|colloidal assembly|perovskite stability|superconducting transitions|spin relaxation|
exciton diffusion|phonon transport|quantum entanglement|neutrino oscillation|dark matter halos|stellar rotation|
galaxy clustering|exoplanet atmospheres|gravitational lensing|turbulent mixing|granular flow|crack propagation|
protein folding|enzyme promiscuity|allosteric regulation|membrane fusion|ion channel gating|receptor internalization|
transcript isoforms|alternative splicing|codon usage|gene regulatory networks|copy number variation|
speech recognition|machine translation|image registration|lesion segmentation|pose estimation|graph partitioning|
query optimization|program synthesis|type inference|cache coherence|packet scheduling|intrusion detection|
traffic forecasting|demand estimation|price discovery|voter turnout|school attendance|labor migration|
maternal mortality|vaccine hesitancy|sleep fragmentation|gait variability|reading comprehension|working memory|
color perception|moral judgment|language acquisition|musical training|risk aversion|collective behavior""".replace(
    "\n", ""
).split("|")
SUBJECTS = """Mus musculus|Drosophila melanogaster|Caenorhabditis elegans|Danio rerio|Arabidopsis thaliana|
Escherichia coli|Saccharomyces cerevisiae|Xenopus laevis|rhesus macaques|dairy cattle|migratory songbirds|
Atlantic salmon|honey bees|tropical forests|alpine lakes|boreal peatlands|coastal estuaries|urban catchments|
newborn infants|adolescent girls|older adults|pregnant women|kidney transplant recipients|stroke survivors|
primary school children|shift workers|marathon runners|rural households|long-term care homes|intensive care units|
patients with type 2 diabetes|patients with leukemia|patients with Crohn disease|patients with esophageal cancer|
low-resource languages|sparse graphs|satellite images|electronic health records|wearable sensors|social networks|
multilayer films|porous silica|thin graphene sheets|nickel alloys|ionic liquids|binary mixtures|microfluidic droplets|
low-mass stars|spiral galaxies|interstellar clouds|trapped ions|optical lattices|topological insulators""".replace(
    "\n", ""
).split("|")
METHODS = """single-cell sequencing|cryo-electron tomography|optical coherence tomography|mass spectrometry|
genome-wide association|Mendelian randomization|Bayesian inference|variational autoencoders|random forests|
contrastive learning|diffusion models|graph neural networks|agent-based modeling|density functional theory|
molecular dynamics|Monte Carlo sampling|finite element analysis|Raman spectroscopy|X-ray diffraction|
neutron scattering|isotope labeling|remote sensing|eddy covariance|radiocarbon dating|functional MRI|
transcranial stimulation|eye tracking|randomized trials|cohort analysis|propensity matching|meta-regression|
natural experiments|panel surveys|in-depth interviews|CRISPR screens|RNA interference|optogenetic silencing|
patch-clamp recording|time-lapse imaging|flow cytometry|spatial transcriptomics|metabolic flux analysis|
phylogenetic reconstruction|environmental DNA|acoustic monitoring|laser ablation|
scanning tunneling microscopy""".replace("\n", "").split("|")
AGENTS = """TGF-β signaling|α-synuclein|β-catenin|interleukin-6|interleukin-10|NF-κB|p53 loss|PTEN deletion|
vitamin D|vitamin E|high salinity|low oxygen|chronic stress|aerobic exercise|caloric restriction|night-time light|
warming|nitrogen enrichment|grazing pressure|metformin|rapamycin|dexamethasone|γ-radiation|heavy metals|
sulfur compounds|CO2 enrichment|shear stress|magnetic fields|strain rate|dopant concentration|label noise|
class imbalance|data augmentation|parental leave|minimum wages|school meals|peer feedback|air pollution""".replace(
    "\n", ""
).split("|")
PATTERNS = (
    "{agent} regulates {topic} in {subject}",
    "{method} reveals {adjective} {topic} in {subject}",
    "Effects of {agent} on {topic} in {subject}",
    "{adjective} {topic}: a study of {subject} by {method}",
    "{topic} in {subject}: {method} and {agent}",
    "Role of {agent} in {topic} and {topic2}",
    "Predicting {topic} in {subject} with {method}",
    "{method} for {topic} under {agent}",
    "{agent} and {topic} in {subject}: evidence from {method}",
    "On the origin of {adjective} {topic} in {subject}",
    "Does {agent} change {topic} in {subject}? Results of {method}",
    "Towards {adjective} {topic} by {method} in {subject}",
    "{topic} and {topic2} are coupled by {agent} in {subject}",
    "A {adjective} mechanism of {topic} driven by {agent}",
    "Quantifying {agent} during {topic} with {method}",
    "Loss of {agent} impairs {topic} through {topic2}",
    "{subject} as a model of {adjective} {topic}",
    "Limits of {method} for measuring {topic}",
    "Spatial patterns of {topic} in {subject} revealed by {method}",
    "How {agent} shapes {topic} in {subject}",
)
ADJECTIVES = """robust|transient|cooperative|heterogeneous|age-dependent|sex-specific|long-range|non-linear|multiscale|
rapid|persistent|context-dependent|seasonal|bistable|low-cost|interpretable|reversible|spontaneous|maternal|early-life|
temperature-sensitive|dose-dependent|oscillatory|asymmetric|hierarchical|adaptive|stochastic|cell-autonomous""".replace(
    "\n", ""
).split("|")
SUBTITLES = """a systematic review|a randomized controlled trial|a cross-sectional study|a population-based cohort|
insights from simulation|lessons from a decade of monitoring|a multicenter analysis|theory and experiment|
a unified framework|implications for conservation|a case for caution|protocol and feasibility""".replace(
    "\n", ""
).split("|")
BRITISH = {
    "tumor": "tumour", "hematopoietic": "haematopoietic", "signaling": "signalling", "remodeling": "remodelling",
    "ischemia": "ischaemia", "edema": "oedema", "behavior": "behaviour", "color": "colour", "labor": "labour",
    "polymerization": "polymerisation", "internalization": "internalisation", "optimization": "optimisation",
    "leukemia": "leukaemia", "esophageal": "oesophageal", "randomization": "randomisation", "modeling": "modelling",
    "labeling": "labelling", "randomized": "randomised", "sulfur": "sulphur", "multicenter": "multicentre",
    "tunneling": "tunnelling", "judgment": "judgement", "analyzed": "analysed", "Aging": "Ageing",
}  # fmt: skip
FAMILIES = """Abebe|Achterberg|Adeyemi|Aguirre|Almeida|Andersson|Araújo|Baptiste|Barzani|Bauer|Becker|Bernard|
Bianchi|Björnsson|Bonnet|Borges|Bouchard|Brandão|Brown|Castellano|Chandra|Chen|Cohen|Costa|Çelik|Dąbrowski|Das|
de Souza|de la Cruz|Delgado|Dlamini|Dubois|Díaz Romero|Eriksen|Fernández|Ferreira|Fischer|Fitzgerald|Fujimoto|
García Márquez|Ghosh|Goldberg|González|Gustafsson|Haddad|Hansen|Hernández López|Hoffmann|Horváth|Huang|Ibrahim|
Ivanov|Jansen|Johansson|Jones|Jørgensen|Kaplan|Kim|Kiplagat|Kobayashi|Kowalczyk|Krüger|Kumar|Lefèvre|Li|Liu|Lopez|
Łukasik|MacDonald|Mahlangu|Martin|Mbeki|Meyer|Mishra|Mohammadi|Moreau|Müller|Nakamura|Nguyen|Novák|O'Brien|Okafor|
Olsen|Ortiz|Østergaard|Park|Patel|Pereira|Petrov|Popescu|Quispe|Rahman|Ramírez|Rossi|Rossi-Conti|Sánchez|Santos|
Sato|Schmidt|Schröder|Silva|Singh|Smirnov|Smith|Suzuki|Svensson|Takahashi|Tanaka|Taylor|Thompson|Tran|Ueda|
van den Berg|van Dijk|von Arnim|Wagner|Wang|Watanabe|Weiß|Williams|Wu|Xu|Yamamoto|Yang|Yilmaz|Zhang|Zhao|Zhou|
Zimmermann""".replace("\n", "").split("|")
GIVEN = """Aisha|Akira|Alejandro|Amara|Ana|Anders|Andrea|Anna|Antoine|Ayşe|Beatriz|Benjamin|Boris|Camille|Carlos|
Chiara|Chloé|Daniel|David|Deepa|Dmitri|Elena|Elif|Emeka|Emily|Eva|Fatima|Felix|Francesca|Giorgos|Grace|Hana|Hans|
Hao|Helena|Hiroshi|Hugo|Ibrahim|Ingrid|Ivan|Jae-won|James|Jana|Jean-Luc|Jing|Joana|John|José|Julia|Jun|Kamala|
Karin|Katarzyna|Keiko|Kofi|Lars|Laura|Lei|Leila|Lin|Lucía|Magnus|Mai|Maria|Marta|Martin|Mateusz|Mei|Michael|Min|
Mohammed|Naledi|Natalia|Nikolai|Noor|Olga|Omar|Paul|Pedro|Priya|Qing|Rachel|Rafael|Ravi|Robert|Rosa|Samuel|Sara|
Sergei|Siti|Sofia|Susan|Thabo|Thomas|Tomoko|Ulrike|Valentina|Wei|William|Xiao|Yan|Yuki|Zeynep|Zoltán""".replace(
    "\n", ""
).split("|")
PROSE = """we|show|that|here|measured|across|between|during|after|before|increase|decrease|response|observed|samples|
conditions|model|models|data|results|suggest|evidence|previous|studies|remain|unclear|however|significant|estimates|
compared|controls|approach|provides|framework|predicts|experimental|variation|changes|levels|strongly|associated|
independent|replicated|dynamics|mechanism|underlying|consistent|findings|support|potential|future|applications""".replace(
    "\n", ""
).split("|")
VENUES = """Journal of Imaginary Biology|Annals of Invented Medicine|Letters in Assumed Physics|Transactions on Presumed
Computing|Archives of Supposed Ecology|Reports of Notional Chemistry|Review of Hypothetical Economics""".replace(
    "\n", " "
).split("|")
