"""What a model's owner can do against membership inference, and what each measure gains and costs."""
