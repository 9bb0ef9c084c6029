"""Names that look like secrets: those that are told from others, and how many are said."""

from __future__ import annotations

import pytest

from miaudit.io.secret_names import left_out, looks_secret

SECRETS = (
    *("password", "user_passwd", "SSN", "api_key", "apiKey", "authToken", "token", "IBAN", "credit card number"),
    *("passport", "client_secret", "card_no", "bank_account", "pin", "anna@example.org"),
    *("sk-abcDEF123456789012", "ghp_16C7e42F292c6912E7", "AKIAIOSFODNN7EXAMPLE", "DE89370400440532013000"),
    *("9f86d081884c7d659a2feaa0c55ad015", "123-45-6789", "4111 1111 1111 1111", "dGhpcyBJcy4BBIFNlY3JldDEyMw=="),
)
PLAIN = (
    *("age", "member", "loss", "token_loss", "tokens", "n_tokens", "score.token_loss", "key", "person_id", "spin"),
    *("target_loss_memguard", "logit_confidence", "secretary", "account_age", "p_0", "2024", "0", "class", "pinterest"),
    *("aVeryLongColumnNameInCamelCase", "year_of_birth", "bank"),
)


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_and_their_names_are_told(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", PLAIN)
def test_names_of_columns_are_none(name: str) -> None:
    assert not looks_secret(name)


def test_they_are_counted_and_never_named() -> None:
    assert left_out(PLAIN) == ""
    assert left_out([*PLAIN, "ssn"]) == "a column with a name that looks like a secret was left out"
    said = left_out([*SECRETS, *PLAIN])
    assert said == f"{len(SECRETS)} columns with names that look like secrets were left out"
