package config_test

import (
	"fmt"

	"github.com/launch-ml/launch/core/config"
)

// An edit replaces the bytes of one value. Comments and order stay.
func ExampleParse() {
	doc, err := config.Parse("recipe.yaml", []byte("train:\n  batch: 16  # per card\n  lr: 1e-4\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	batch, ok := doc.Root().At("train.batch").Int()
	fmt.Println(batch, ok)
	e, err := config.Change(doc, "recipe.yaml", "train.batch", "8")
	fmt.Println(e, err)
	fmt.Print(string(doc.Bytes()))
	// Output:
	// 16 true
	// recipe.yaml:train.batch: 16 -> 8 <nil>
	// train:
	//   batch: 8  # per card
	//   lr: 1e-4
}

// Arguments are read as argparse reads them: under any of an option's names, joined by "=" or not.
func ExampleParseArgv() {
	argv, err := config.ParseArgv([]string{"-b", "16", "--amp", "--lr=0.1", "data"}, []config.Option{
		{Names: []string{"--batch-size", "-b"}}, {Names: []string{"--amp"}, Takes: config.None}, {Names: []string{"--lr"}},
		{Names: []string{"--accumulate"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	batch, _ := argv.Get("--batch-size")
	fmt.Println(batch, argv.Has("--amp"), argv.Positionals())
	// An option that is absent is added, where the edit is made.
	for _, e := range []config.Edit{
		config.Proposed(argv, config.ArgvDoc, "--batch-size", "8"),
		config.Proposed(argv, config.ArgvDoc, "--accumulate", "2"),
	} {
		fmt.Println(e)
	}
	// Output:
	// 16 true [data]
	// argv:--batch-size: 16 -> 8
	// argv:--accumulate: (absent) -> 2
}
