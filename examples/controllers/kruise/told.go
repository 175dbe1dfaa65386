package kruise

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/ownercache"
)

// Told remembers what was last said of objects, so that what goes on for longer is said once. Make it with NewTold. It is safe for concurrent use.
type Told struct{ said *Memory[map[string]string] }

// NewTold returns a Told for the objects of an index. Call Forget for each that is gone.
func NewTold[O client.Object](objects *ownercache.Index[O]) *Told {
	return &Told{NewMemory[map[string]string](Exists(objects))}
}

// IsNews reports whether a text about a subject is another than the last one, and remembers it. The empty text says that there is nothing to tell
// now: it is never news, and what follows it is.
func (t *Told) IsNews(object types.UID, subject, text string) (news bool) {
	if text == "" && len(t.said.Of(object)) == 0 { // as with most passes
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

// Tell sends an event whose message is another than the last one of its name. With the empty message nothing is to be told now.
func (t *Told) Tell(events record.EventRecorder, object client.Object, kind, event, message string) {
	if t.IsNews(object.GetUID(), event, message) {
		events.Event(object, kind, event, message)
	}
}

// Forget forgets an object that is gone.
func (t *Told) Forget(object types.UID) { t.said.Forget(object) }
