package chaos

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// If a policy refuses a write, the controller may try the write at most hotLoopTries times within hotLoopWindow.
// controller-runtime's default back-off, which begins with 5 ms and doubles, stays just below this limit.
const (
	hotLoopTries  = 11
	hotLoopWindow = 10 * time.Second
)

// refusedWrite identifies a write that was refused: the kind of call and its target. For a creation the name is left
// out, because the next attempt may use another generated name.
type refusedWrite struct {
	task                              string
	object                            types.NamespacedName
	verb, resource, subresource, name string
}

// admit calls Subject.Denies to find out whether a write is allowed; a dry run counts as a write. If the same write
// was refused too often, the schedule fails.
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

// reaches reports whether a call reaches the admission plugins of the server: if the object is missing or was
// replaced, the server returns an error before admission.
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

// forgive forgets all refusals. forgive is called after a change that may be a reason to try a refused write again at
// once.
func (w *World) forgive() { w.refused = map[refusedWrite][]time.Time{} }
