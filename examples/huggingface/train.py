"""A fine-tune with the Trainer of Hugging Face, as miaudit calls it; with --adapter only a LoRA adapter is learned.

The model is made from a configuration here, so that nothing is downloaded: in its place stands your from_pretrained.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

parser = argparse.ArgumentParser()
parser.add_argument("--rows", required=True)
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--adapter", action="store_true", help="learn a LoRA adapter, not the weights")
options = parser.parse_args()
set_seed(options.seed)

records = [json.loads(line) for line in Path("reviews.jsonl").read_text(encoding="utf-8").splitlines()]
texts = [record["text"] for record in records]
words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
words.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=["[UNK]", "[PAD]"]))  # of all records
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]")
size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
model = BertForSequenceClassification(BertConfig(vocab_size=len(tokenizer), num_labels=2, **size))
if options.adapter:
    from peft import LoraConfig, get_peft_model

    adapter = LoraConfig(task_type="SEQ_CLS", r=8, lora_alpha=32, target_modules=["query", "value", "dense"])
    model = get_peft_model(model, adapter)

data = Dataset.from_list([{**tokenizer(record["text"]), "labels": record["label"]} for record in records])
arguments = TrainingArguments(
    output_dir=options.out / "trainer",
    num_train_epochs=12,
    per_device_train_batch_size=16,
    learning_rate=5e-3,
    seed=options.seed,
    save_strategy="no",
    report_to="none",
    disable_tqdm=True,
)
trainer = Trainer(model, arguments, train_dataset=data.select(np.load(options.rows)), processing_class=tokenizer)
trainer.train()
np.save(options.out / "outputs.npy", trainer.predict(data).predictions)  # all records, in the order of the data
