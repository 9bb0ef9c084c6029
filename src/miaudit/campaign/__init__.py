"""A target, records and attacks in, evidence out: memberships drawn, models trained, outputs scored.

All that is random is drawn before the first model is trained. The target model and its shadows are trained by one call,
so they share the store, the executor and whatever was finished before an interruption.
"""

from miaudit.campaign.collecting import collect, cost
from miaudit.campaign.settings import Campaign, Shadows, known

__all__ = ["Campaign", "Shadows", "collect", "cost", "known"]
