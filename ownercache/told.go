package ownercache

import "k8s.io/apimachinery/pkg/types"

// Told remembers the last messages about objects, so a lasting state causes a single event. Make a Told with NewTold;
// to the zero Told every text is news. A Told is safe for concurrent use.
type Told struct{ said *Memory[map[string]string] }

// NewTold returns a Told for the owners of a Cache, or other objects. Call NewTold before the manager starts.
func NewTold(objects Followed) *Told { return &Told{NewMemory[map[string]string](objects)} }

// IsNews reports whether a text about a subject differs from the last text, and remembers the text. The empty text
// means: nothing to tell now. The empty text is never news, and any text after the empty text is news.
func (t *Told) IsNews(object types.UID, subject, text string) (news bool) {
	switch {
	case t.said == nil:
		return text != ""
	case text == "" && len(t.said.Of(object)) == 0: // as with most passes
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
