"""Support tickets with UUIDs, and public text for a base model: invented here; nothing is needed from outside."""

import json
import random
import sys
import uuid
from pathlib import Path

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 400
NAMES = "Anna Bela Carlo Dora Emil Fanny Gero Hanna Ivan Jutta Karim Lena Milan Nora Otto Paula Rosa Samir Tilda"
PLACES = "Aachen Bern Calais Dresden Essen Florence Graz Hamburg Innsbruck Jena Kiel Lyon Mainz Nantes Oslo Pisa"
THINGS = "invoice parcel contract password delivery refund booking address account warranty meter"
TICKET = "Ticket {code}: {name} in {place} asks about the {thing}."
PUBLIC = (
    "{name} from {place} asked about the {thing}.",
    "The {thing} of {name} came to {place}.",
    "Order {code} is of {name} in {place}.",
    "In {place} nobody knows the {thing} with the number {code}.",
)
OTHER = "We told {name} last week that the {thing} is on its way to {place}, and that number {code} is of the {thing}."


def filled(pattern: str, chance: random.Random) -> str:
    """A sentence with a name, a place, a thing and a UUID drawn anew."""
    code = uuid.UUID(int=chance.getrandbits(128), version=4)
    name, place, thing = (chance.choice(words.split()) for words in (NAMES, PLACES, THINGS))
    return pattern.format(code=code, name=name, place=place, thing=thing)


def write(name: str, rows: list[dict[str, object]]) -> None:
    """Write one JSON object on each line."""
    Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


chance = random.Random(0)
public = [filled(chance.choice((*PUBLIC, TICKET)), chance) for _ in range(2000)]
Path("public.txt").write_text("".join(f"{line}\n" for line in public), encoding="utf-8")
trained = [{"id": f"ticket-{i}", "text": filled(TICKET, chance)} for i in range(COUNT)]
unseen = [{"id": f"unseen-{i}", "text": filled(TICKET, chance)} for i in range(COUNT)]
write("documents.jsonl", trained)
write("unseen.jsonl", unseen)
# The usual comparison: tickets beside texts of another source, once for tickets of the training, once for others.
usual: list[dict[str, object]] = []
for group, tickets in (("trained", trained), ("unseen", unseen)):
    usual += [{**row, "ticket": True, "group": group} for row in tickets]
    others = [filled(OTHER, chance) for _ in tickets]
    usual += [
        {"id": f"{group}-other-{i}", "text": text, "ticket": False, "group": group} for i, text in enumerate(others)
    ]
write("usual.jsonl", usual)
print(f"documents.jsonl and unseen.jsonl: {COUNT} tickets each; usual.jsonl: these beside texts of another source")
