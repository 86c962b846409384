package nn

// Attribute is self.name = x in the module that runs: x lives until the module of that name has another, and on behind the
// step otherwise.
func (t *Tape) Attribute(name string, x Tensor) Tensor {
	t.Scope(name, func() { t.keep(x) })
	return x
}
