"""Small cross-encoders with random but fixed weights."""

import importlib
import json
import string
from pathlib import Path
from typing import Any

from retrieve_cli.models.rerankers.cross_folder import CrossFolder, read_cross_folder

MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*MARKS, "the", "##ing", "word", "segment", "lung"]
SIZES = {"hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 52}


def word_pieces() -> Any:
    """A tokenizer of word pieces: a few words, and single characters for all others."""
    tokenizers = importlib.import_module("tokenizers")
    letters = [*string.ascii_lowercase, *string.digits, *string.punctuation]
    pieces = [*PIECES, *letters, *(f"##{letter}" for letter in letters)]
    words = tokenizers.models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]")
    made = tokenizers.Tokenizer(words)
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.add_special_tokens(MARKS)
    return made


def make_bert(path: Path, *, tokenizer: str = "BertTokenizer", **settings: Any) -> CrossFolder:
    """A BERT with one label: word pieces, at most 40 tokens, the two texts told apart."""
    made = word_pieces()
    # What many models ship: cutting and padding to a length that is not the model's.
    made.enable_truncation(16)
    made.enable_padding(length=16)
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    sizes = {**SIZES, "max_position_embeddings": 40, "num_labels": 1, **settings}
    save(path, "Bert", tokenizer=made, special=special, head="ForSequenceClassification", **sizes)
    edit(path / "tokenizer_config.json", tokenizer_class=tokenizer)
    return read_cross_folder(path)


def make_xlmr(path: Path) -> CrossFolder:
    """An XLM-RoBERTa with one label: pieces of a unigram model, positions that start after the padding index."""
    tokenizers = importlib.import_module("tokenizers")
    marks = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    letters = [(f"{front}{letter}", -4.0) for front in ("", "\u2581") for letter in string.ascii_lowercase]
    words = [("\u2581", -3.0), ("ing", -2.0), ("\u2581the", -2.0), ("\u2581segment", -2.5), ("tion", -2.5)]
    pieces = [*((mark, 0.0) for mark in marks), *letters, *words]
    made = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=3, byte_fallback=False))
    pre = tokenizers.pre_tokenizers
    made.pre_tokenizer = pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace()])
    pair = {"single": "<s> $A </s>", "pair": "<s> $A </s> </s> $B </s>"}
    made.post_processor = tokenizers.processors.TemplateProcessing(**pair, special_tokens=[("<s>", 0), ("</s>", 2)])
    made.add_special_tokens(marks)
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    special |= {"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
    sizes = {**SIZES, "max_position_embeddings": 42, "type_vocab_size": 1, "pad_token_id": 1, "num_labels": 1}
    save(path, "XLMRoberta", tokenizer=made, special=special, head="ForSequenceClassification", **sizes)
    edit(path / "tokenizer_config.json", tokenizer_class="XLMRobertaTokenizer")
    return read_cross_folder(path)


def make_qwen(path: Path) -> CrossFolder:
    """A Qwen3 that answers yes or no, one token a byte, through the template of a chat model."""
    tokenizers = importlib.import_module("tokenizers")
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
    alphabet = [*sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()), "ye", "yes", "no"]
    vocabulary = {piece: number for number, piece in enumerate(alphabet)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [("y", "e"), ("ye", "s"), ("n", "o")]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(marks)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    sizes |= {"head_dim": 16, "intermediate_size": 48, "max_position_embeddings": 600, "pad_token_id": 259}
    special = {"pad_token": "<|endoftext|>", "eos_token": "<|im_end|>"}
    save(path, "Qwen3", tokenizer=made, special=special, head="ForCausalLM", **sizes)
    turns = (
        "{% for turn in messages %}{% if turn.role == 'user' %}<|im_start|>{{ turn.content }}{% endif %}{% endfor %}"
    )
    (path / "chat_template.jinja").write_text(turns)
    return read_cross_folder(path)


def save(path: Path, family: str, *, tokenizer: Any, special: dict[str, str], head: str, **sizes: Any) -> None:
    transformers = importlib.import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    importlib.import_module("torch").manual_seed(7)
    config = getattr(transformers, f"{family}Config")(
        **sizes, vocab_size=tokenizer.get_vocab_size(), initializer_range=0.4
    )
    getattr(transformers, f"{family}{head}")(config).save_pretrained(path)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(path)


def edit(path: Path, **settings: Any) -> None:
    """Sets keys of a JSON file, which is made where it is not there."""
    found = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**found, **settings}))
