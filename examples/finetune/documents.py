"""Documents to fine-tune on, and public text for a base model: invented here; nothing is needed from outside."""

import json
import random
from pathlib import Path

NAMES = (
    "Anna Bela Carlo Dora Emil Fanny Gero Hanna Ivan Jutta Karim Lena Milan Nora Otto Paula Quentin Rosa Samir Tilda"
)
PLACES = "Aachen Bern Calais Dresden Essen Florence Graz Hamburg Innsbruck Jena Kiel Lyon Mainz Nantes Oslo Pisa"
THINGS = "invoice parcel contract password delivery refund booking address account ticket warranty meter"
PUBLIC = (
    "{name} from {place} asked about the {thing}.",
    "The {thing} of {name} came to {place} on day {day}.",
    "We told {name} that the {thing} is in {place}.",
    "In {place} nobody knows the {thing} number {number}.",
)
NOTE = (
    "Note {number} for {name} in {place}: the customer wrote on day {day} about the {thing} and asked for {code}. "
    "{other} in {town} will answer about the {second} before day {until}."
)


def filled(pattern: str, chance: random.Random) -> str:
    """A sentence with names, places and numbers drawn anew."""
    words = {"name": NAMES, "other": NAMES, "place": PLACES, "town": PLACES, "thing": THINGS, "second": THINGS}
    ends = {"day": 32, "until": 32, "number": 10_000, "code": 1_000_000}
    drawn = {name: chance.choice(one.split()) for name, one in words.items()}
    return pattern.format(**drawn, **{name: chance.randrange(1, end) for name, end in ends.items()})


chance = random.Random(0)
public = [filled(chance.choice((*PUBLIC, NOTE)), chance) for _ in range(2000)]
Path("public.txt").write_text("".join(f"{line}\n" for line in public), encoding="utf-8")
notes = [{"id": f"note-{i}", "text": filled(NOTE, chance)} for i in range(100)]
Path("documents.jsonl").write_text("".join(f"{json.dumps(note)}\n" for note in notes), encoding="utf-8")
print("public.txt: 2,000 lines; documents.jsonl: 100 documents")
