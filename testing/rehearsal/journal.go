package rehearsal

import (
	"context"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// journal records the writes of controllers. The state after a write is recorded before the controllers' next
// request, or at the end of the reconcile.
type journal struct {
	server *faultapi.Server
	clock  *Clock

	mu     sync.Mutex
	open   *Write
	before int64 // version of the server before the write whose result is not recorded yet
	writes []Write
	failed map[string]error
}

// Pass records a request.
func (j *journal) Pass(_ context.Context, call faultapi.Call) faultapi.Fate {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.end()
	if call.IsRead() {
		return faultapi.Fate{}
	}
	controller, object, _ := strings.Cut(call.Task, " ")
	namespace, name, _ := strings.Cut(object, "/")
	j.before = j.server.Version()
	j.open = &Write{
		At: j.clock.Now(), Controller: controller, Object: types.NamespacedName{Namespace: namespace, Name: name},
		Call: call, Before: j.server.Target(call),
	}
	return faultapi.Fate{}
}

// len returns the number of writes.
func (j *journal) len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.writes)
}

// close records the state after the last write.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.end()
}

func (j *journal) end() {
	w := j.open
	if j.open = nil; w == nil || j.server.Version() == j.before {
		return
	}
	w.After = j.server.Target(w.Call)
	if w.Call.Verb == "create" && w.After == nil {
		w.After = j.server.Newest(w.Call.Resource)
	}
	j.writes = append(j.writes, *w)
}

// recorded is a reconciler whose requests and errors are recorded.
type recorded struct {
	reconcile.Reconciler

	name    string
	journal *journal
}

// Reconcile calls the wrapped Reconciler.
func (r *recorded) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	task := r.name + " " + request.String()
	result, err := r.Reconciler.Reconcile(faultapi.WithTask(ctx, task), request)
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	if r.journal.failed == nil {
		r.journal.failed = map[string]error{}
	}
	if delete(r.journal.failed, task); err != nil {
		r.journal.failed[task] = err
	}
	return result, err
}
