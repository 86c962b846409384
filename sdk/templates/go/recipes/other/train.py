print("a script of another family")
