package sweep

import (
	"os"

	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
)

// searcherOf returns what lists a sweep's trials, and what ends it. trials is the list of a new sweep.
func searcherOf(h *sweep.History, t sweep.Template, trials []sweep.Trial) (sweep.Searcher, func(), error) {
	search := h.Spec.Search
	switch {
	case search != nil && len(search.Ask) > 0 && !h.Done:
		s, err := local.StartSearcher(local.AskOptions{Command: search.Ask, Dir: t.Dir, Stderr: os.Stderr,
			Metric:   search.Metric,
			Patience: search.Patience, Check: func(trial sweep.Trial) error {
				if _, err := t.Render(trial); err != nil {
					return err
				}
				return checkSecrets([]sweep.Trial{trial})
			}})
		if err != nil {
			return nil, nil, err
		}
		return s, func() { s.Close(h) }, nil
	case search == nil && trials != nil:
		return sweep.Rows(trials), func() {}, nil
	}
	s, err := sweep.Listing(h)
	return s, func() {}, err
}
