package lm

// attends reads attn_implementation.
func attends(t *training, how string) string {
	switch how {
	case "", "sdpa", "None":
	case "eager":
		t.step.Eager = true
	case "flash_attention_2", "flash_attention_3":
		t.step.Flash = true
		unmeasured(t, "FlashAttention")
	default:
		return "attn_implementation " + how + " has no formula"
	}
	return ""
}
