from src.training.train_moco import main

if __name__ == "__main__":
    main()
