package lm

import (
	"encoding/json"
	"fmt"
)

// checkpointField is the field that turns activation checkpointing on: gradient_checkpointing is its older name.
func checkpointField(s *settings) string {
	if s.is(llamaFactory) {
		return "disable_gradient_checkpointing"
	}
	if s.has("activation_checkpointing") {
		return "activation_checkpointing"
	}
	return "gradient_checkpointing"
}

// checkpointsTrainer reads activation checkpointing, whose default is not reentrant (modeling_utils.py:3149), but for
// that of 4.57.6 (modeling_utils.py:3692).
func checkpointsTrainer(s *settings, t *training) string {
	t.step.Checkpointing, t.step.Reentrant = s.on(checkpointField(s)), older(s)
	for _, field := range []string{"activation_checkpointing_kwargs", "gradient_checkpointing_kwargs"} {
		v, ok := s.get(field)
		if !ok || v == "None" {
			continue
		}
		var kwargs map[string]any
		if json.Unmarshal([]byte(v), &kwargs) != nil {
			return s.address(field).Path + " could not be read"
		}
		for name, value := range kwargs {
			on, is := value.(bool)
			if name != "use_reentrant" || !is {
				return fmt.Sprintf("%s with %s has no formula", s.address(field).Path, name)
			}
			t.step.Reentrant = on
		}
	}
	return ""
}
