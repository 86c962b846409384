"""Stands for a trainer: the plugin reads its command and its recipe, and never this file."""
