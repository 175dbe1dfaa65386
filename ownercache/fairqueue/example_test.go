package fairqueue_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/ownercache/fairqueue"
)

// Example: a namespace has a hundred objects in the queue when an object of another namespace is added.
func Example() {
	// In a controller, set controller.Options{MaxConcurrentReconciles: 12, NewQueue: newQueue, RateLimiter: limiter}:
	// the controller then makes and uses the queue.
	newQueue := fairqueue.New(3, 12)
	limiter := fairqueue.PerNamespace(nil)
	queue := newQueue("fleet", limiter)
	defer queue.ShutDown()
	for i := range 100 {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "crowded", Name: fmt.Sprint(i)}})
	}
	queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "quiet", Name: "web"}})
	for range 4 {
		next, _ := queue.Get()
		fmt.Println(next)
	}
	fmt.Println(queue.Len(), "wait; one of crowded is worked on when one of crowded is done")

	// Output:
	// crowded/0
	// quiet/web
	// crowded/1
	// crowded/2
	// 97 wait; one of crowded is worked on when one of crowded is done
}
