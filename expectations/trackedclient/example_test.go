package trackedclient_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
)

func Example() {
	ctx := context.Background()
	server := newBench().server   // a fake API server
	cache := &index{version: "1"} // an ownercache.Index in a controller
	// In a controller: mgr.GetClient(), mgr.GetAPIReader(), mgr.Add(clients), and no NoBarrier.
	clients, err := trackedclient.NewClients(server, server,
		trackedclient.Options{Tracker: expectations.Options{NoBarrier: true}}, trackedclient.Pods(cache))
	if err != nil {
		fmt.Println(err)
		return
	}
	web := &metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"}

	reconcile := func() {
		pending, err := clients.Check(ctx, web)
		if err != nil || pending != nil {
			fmt.Println("wait", pending.Wait(), err)
			return
		}
		if len(cache.Versions(nil)) == 0 { // the decision, from the content of the cache
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "p1"}}
			fmt.Println("create", clients.For(web.UID).Create(ctx, pod))
		}
	}
	reconcile()
	reconcile() // the cache does not show the Pod yet: without the check, a second Pod would be created
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: types.UID("p1"), ResourceVersion: "2"}}
	cache.show("2", pod)
	reconcile()
	// Output:
	// create <nil>
	// wait 10ms <nil>
}
