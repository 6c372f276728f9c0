"""The models that the configuration needs: where they are, whether they are sound, how they get here."""
