package ownercache

import "k8s.io/apimachinery/pkg/types"

// Told remembers the last message about each object, so that a controller reports a lasting state by a single event.
// Make a Told with NewTold; for the zero Told every message is new. A Told is safe for concurrent use.
type Told struct{ said *Memory[map[string]string] }

// NewTold returns a Told for the owners of a Cache, or for other objects. Call NewTold before the manager starts.
func NewTold(objects Followed) *Told { return &Told{NewMemory[map[string]string](objects)} }

// IsNews reports whether the text about a subject (a part of the object that the caller names) differs from the last
// text about the subject, and remembers the text. The empty text means that there is nothing to report now: IsNews
// returns false for the empty text, and then true for the next text.
func (t *Told) IsNews(object types.UID, subject, text string) (news bool) {
	switch {
	case t.said == nil:
		return text != ""
	case text == "" && len(t.said.Of(object)) == 0: // the usual case
		return false
	}
	t.said.Change(object, func(said *map[string]string) {
		switch {
		case text == "":
			delete(*said, subject)
			return
		case *said == nil:
			*said = map[string]string{}
		}
		news = (*said)[subject] != text
		(*said)[subject] = text
	})
	return news
}
