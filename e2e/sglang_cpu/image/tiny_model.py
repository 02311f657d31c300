"""Build a tiny Llama model with random weights, a tokenizer of syllables and a chat template.

    python3 -m image.tiny_model OUTPUT_FOLDER

Its answers mean nothing, but they are real: the weights are drawn so widely that greedy decoding walks through many
different tokens and depends on the whole prompt. A key/value cache that arrives damaged at the decode worker
therefore changes the answer, which a model with constant weights would hide. An answer never ends by itself.
"""

import argparse
import string
import sys
from pathlib import Path

import torch  # type: ignore[import-not-found]
from tokenizers import Tokenizer, decoders, models  # type: ignore[import-not-found]
from transformers import (  # type: ignore[import-not-found]
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

SEED = 0
CONTEXT_TOKENS = 4096
WEIGHT_SPREAD = 0.25
"""Standard deviation of the weights. With the customary 0.02 the logits are nearly flat and every prompt ends in
the same repeated token."""

UNKNOWN, PAD, BEGIN, END = SPECIAL = ("<unk>", "<pad>", "<s>", "</s>")
CHAT_TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"


def pieces() -> list[str]:
    """The vocabulary: printable ASCII and syllables with and without a space before them.

    Every token is valid text of its own. With byte tokens a server holds characters back until they are whole, and
    the client would measure that instead of the time between tokens.
    """
    characters = [*string.ascii_letters, *string.digits, *string.punctuation, " ", "\n"]
    syllables = [first + second for first in "bcdfghjklmnprstvwxyz" for second in "aeiou"]
    return [*SPECIAL, *characters, *syllables, *(" " + syllable for syllable in syllables)]


def build_tokenizer() -> PreTrainedTokenizerFast:
    # Equal scores: the best split of a text is the one with the fewest pieces.
    vocabulary = [(piece, -1.0) for piece in pieces()]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=SPECIAL.index(UNKNOWN)))
    tokenizer.decoder = decoders.Fuse()
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=UNKNOWN,
        pad_token=PAD,
        bos_token=BEGIN,
        eos_token=END,
        model_max_length=CONTEXT_TOKENS,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def build_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=CONTEXT_TOKENS,
        initializer_range=WEIGHT_SPREAD,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config)
    # A logit of 0 is never the highest: an answer is as long as the request allows, and all of it is text.
    with torch.no_grad():
        model.lm_head.weight[: len(SPECIAL)] = 0
    return model.to(torch.bfloat16)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output_folder", type=Path)
    folder = parser.parse_args(arguments).output_folder
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    print(f"{folder}: {sum(parameter.numel() for parameter in model.parameters())} parameters")


if __name__ == "__main__":
    main(sys.argv[1:])
