package chaos

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// A write refused by a lasting policy may be tried hotLoopTries times within hotLoopWindow. controller-runtime's first
// backoff, 5 ms with doubling, just stays below the limit.
const (
	hotLoopTries  = 11
	hotLoopWindow = 10 * time.Second
)

// refusedWrite identifies a refused write: the call and its target. A creation has no name in the key, because the next
// attempt may draw a new name.
type refusedWrite struct {
	task                              string
	object                            types.NamespacedName
	verb, resource, subresource, name string
}

// admit asks the subject's lasting policies about a write, dry run or not, that reaches the server with the given
// target, and judges the number of refusals.
func (w *World) admit(p *Process, t *Task, call faultapi.Call, before client.Object) error {
	if w.subject.Denies == nil || call.IsRead() && !call.DryRun || !reaches(call, before) {
		return nil
	}
	err := w.subject.Denies(call, before)
	if err == nil {
		return nil
	}
	key := refusedWrite{task: call.Task, verb: call.Verb, resource: call.Resource.String(), subresource: call.Subresource}
	if t != nil {
		key.task, key.object = cmp.Or(t.Controller, t.Name), t.Object
	}
	if call.Verb != "create" {
		key.name = call.Namespace + "/" + call.Name
	}
	w.refused[key] = append(w.refused[key], time.Now())
	w.judgeRefused(p, key, call, err)
	return err
}

// reaches reports whether the server would ask its admission plugins: calls for a missing or replaced object are
// answered before.
func reaches(call faultapi.Call, before client.Object) bool {
	if call.Verb == "create" {
		return true
	}
	return before != nil && (call.UID == "" || call.UID == before.GetUID())
}

func (w *World) judgeRefused(p *Process, key refusedWrite, call faultapi.Call, err error) {
	tries := w.refused[key]
	for time.Since(tries[0]) > hotLoopWindow {
		tries = tries[1:]
	}
	w.refused[key] = tries
	if len(tries) > hotLoopTries {
		w.Logf("%scall %s REFUSED %v", p.label(), call, err)
		w.Failf("hot loop", "%s of %s %s was tried %d times within %v although it is refused each time: %v",
			key.task, key.object, call, len(tries), time.Since(tries[0]), err)
	}
}

// forgive forgets the refusals: a change since may be a reason to try again at once.
func (w *World) forgive() { w.refused = map[refusedWrite][]time.Time{} }
