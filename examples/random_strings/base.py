"""A small language model from public text, in the place of the base model that you have."""

from pathlib import Path

from tokenizers import ByteLevelBPETokenizer
from transformers import (
    DataCollatorForLanguageModeling,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

set_seed(0)
lines = Path("public.txt").read_text(encoding="utf-8").splitlines()
pieces = ByteLevelBPETokenizer()
pieces.train_from_iterator(lines, vocab_size=1000, special_tokens=["<end>"], show_progress=False)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=pieces._tokenizer, eos_token="<end>", pad_token="<end>")
size = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}
end = tokenizer.eos_token_id
model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), bos_token_id=end, eos_token_id=end, **size))
arguments = TrainingArguments(
    output_dir="trainer",
    num_train_epochs=2,
    per_device_train_batch_size=32,
    learning_rate=3e-3,
    use_cpu=True,
    report_to=[],
    save_strategy="no",
    logging_strategy="no",
    disable_tqdm=True,
)
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
data = [tokenizer(line) for line in lines]
trainer = Trainer(model, arguments, train_dataset=data, data_collator=collator)
trainer.train()
model.save_pretrained("base")
tokenizer.save_pretrained("base")
print(f"base: a model of {model.num_parameters():,} parameters")
