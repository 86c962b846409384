# The kit starts nothing: a recipe needs only what the plugin reads. The real script lies in ../defaults.
