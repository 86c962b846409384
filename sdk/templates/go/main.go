// Command launch-plugin-newplugin tells launch about one family of trainers: train_newplugin.py and its like.
package main

import "github.com/launch-ml/launch/core/plugin"

func main() { plugin.Serve(family{}) }
