"""Applications that hear of sign-outs in frames."""
