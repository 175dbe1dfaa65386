package kruise

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/ownercache"
)

// Told remembers the last events of objects, so a lasting state causes a single event. Make a Told with NewTold. A Told
// is safe for concurrent use.
type Told struct{ said *Memory[map[string]string] }

// NewTold returns a Told for the objects of an index. Call Forget for each deleted object.
func NewTold[O client.Object](objects *ownercache.Index[O]) *Told {
	return &Told{NewMemory[map[string]string](Exists(objects))}
}

// IsNews reports whether a text about a subject differs from the last text, and remembers the text. The empty text
// means: nothing to tell now. The empty text is never news, and any text after the empty text is news.
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

// Tell sends an event with a message different from the last message of the event's name. The empty message means:
// nothing to tell now.
func (t *Told) Tell(events record.EventRecorder, object client.Object, kind, event, message string) {
	if t.IsNews(object.GetUID(), event, message) {
		events.Event(object, kind, event, message)
	}
}

// Forget forgets a deleted object.
func (t *Told) Forget(object types.UID) { t.said.Forget(object) }
