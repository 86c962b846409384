package arch

import (
	"errors"
	"testing"
)

// What the constructors of losses, or their first step, stop at, and what is without a formula.
func TestLossConstructors(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		name           string
		args           m
		wrong, unknown bool
	}{
		{"msssiml1loss", m{"gaussian_sigmas": []any{}}, true, false}, {"fliploss", m{"pixels_per_degree": 0}, true, false},
		{"contextualloss", m{"layer_weights": m{"conv3_2": 1}}, false, false},
		{"contextualloss", m{"layer_weights": m{"conv_3_2": 1}}, true, false}, // and so it would run, but for the first step
		{"contextualloss", m{"layer_weights": m{"conv_3_2": 1}, "use_vgg": false}, false, false},
		{"contextualloss", m{"use_vgg": false, "distance_type": "l3"}, true, false},
		{"contextualloss", m{"use_vgg": false, "calc_type": "bilateral"}, true, true}, {"contextualloss", m{"use_vgg": false, "distance_type": "l2"}, false, false},
		{"aesoploss", m{"decoder_opt": m{"type": "compact"}, "scale": 3}, true, false}, // nf // scale**2 is 7
		{"aesoploss", m{"decoder_opt": m{"type": "nobodysnet"}}, true, true},
		{"aesoploss", m{"criterion": "msssiml1", "decoder_opt": m{"type": "compact"}}, true, false}, {"aesoploss", m{"criterion": "msssiml1"}, false, false},
		{"perceptualanimeloss", m{"layer_weights": m{"4_2_bn3": 1}}, true, true},
		{"perceptualanimeloss", m{"layer_weights": m{"7_0_conv2": 1}}, false, false},
		{"structuretextureloss", m{"color_space": "ycbcr"}, false, false}, {"contrastiveloss", m{"temperature": 0}, true, false},
	} {
		_, err := Loss{Type: c.name, Args: c.args}.build()
		if (err != nil) != c.wrong || errors.Is(err, ErrUnknown) != c.unknown {
			t.Errorf("%s, %v: %v", c.name, c.args, err)
		}
	}
}
