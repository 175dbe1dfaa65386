package fairqueue_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/fairqueue"
)

// One namespace has a hundred objects to look at when another's comes.
func Example() {
	options := controller.Options{
		MaxConcurrentReconciles: 4,
		NewQueue:                fairqueue.New(3),
		RateLimiter:             fairqueue.PerNamespace(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]),
	}

	// What a controller does with them:
	queue := options.NewQueue("fleet", options.RateLimiter)
	defer queue.ShutDown()
	for i := range 100 {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "crowded", Name: fmt.Sprint(i)}})
	}
	queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "quiet", Name: "web"}})
	for range options.MaxConcurrentReconciles {
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
