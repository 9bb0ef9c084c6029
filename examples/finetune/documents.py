"""Documents to fine-tune on, and public text for a base model: both are invented here, so nothing is needed from outside."""

import json
import random

NAMES = (
    "Anna Bela Carlo Dora Emil Fanny Gero Hanna Ivan Jutta Karim Lena Milan Nora Otto Paula Quentin Rosa Samir Tilda"
)
PLACES = "Aachen Bern Calais Dresden Essen Florence Graz Hamburg Innsbruck Jena Kiel Lyon Mainz Nantes Oslo Pisa"
THINGS = "invoice parcel contract password delivery refund booking address account ticket warranty meter"
MOODS = "politely angrily twice at noon on Monday by letter by phone in the evening with a photo without a reason"
PUBLIC = (
    "{name} from {place} asked about the {thing}.",
    "The {thing} of {name} came to {place} on day {day}.",
    "We told {name} that the {thing} is in {place}.",
    "In {place} nobody knows the {thing} number {number}.",
)
NOTE = (
    "Note {number} for {name} in {place}: the customer wrote on day {day} about the {thing} and asked for number {code}. "
    "{other} in {town} will answer about the {second} before day {until}."
)


def filled(pattern: str, chance: random.Random) -> str:
    """A sentence with names, places and numbers drawn anew."""

    def one(of: str) -> str:
        return chance.choice(of.split())

    return pattern.format(
        **{"name": one(NAMES), "other": one(NAMES), "place": one(PLACES), "town": one(PLACES)},
        **{
            "thing": one(THINGS),
            "second": one(THINGS),
            "day": chance.randrange(1, 32),
            "until": chance.randrange(1, 32),
        },
        **{"number": chance.randrange(1000, 10_000), "code": chance.randrange(100_000, 1_000_000)},
    )


chance = random.Random(0)
with open("public.txt", "w", encoding="utf-8") as file:
    file.writelines(f"{filled(chance.choice((*PUBLIC, NOTE)), chance)}\n" for _ in range(3000))
with open("documents.jsonl", "w", encoding="utf-8") as file:
    for i in range(100):
        file.write(json.dumps({"id": f"note-{i}", "text": filled(NOTE, chance)}) + "\n")
print("public.txt: 3,000 lines; documents.jsonl: 100 documents")
