"""The papers' result tables and settings as they print them."""
