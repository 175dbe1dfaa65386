package apply_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/expectations/apply"
)

func Example() {
	ctx := context.Background()
	server := newBench().server   // a fake API server
	cache := &index{version: "1"} // an ownerindex.Index in a controller
	// In a controller: mgr.GetClient(), mgr.GetAPIReader(), and mgr.Add(c).
	c := apply.NewClient(server, server, expectations.Options{}, apply.Pods(cache))
	web := &metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"}

	reconcile := func() {
		pending, err := c.Check(ctx, web)
		if err != nil || pending != nil {
			fmt.Println("wait", pending.Wait(), err)
			return
		}
		ctx := apply.For(ctx, web.UID)
		if len(cache.Versions(nil)) == 0 { // decide on what the cache shows
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "p1"}}
			fmt.Println("create", c.Create(ctx, pod))
		}
	}
	reconcile()
	reconcile() // the cache does not show the Pod yet: without the check there would be a second one
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: types.UID("p1"), ResourceVersion: "2"}}
	cache.show("2", pod)
	reconcile()
	// Output:
	// create <nil>
	// wait 10ms <nil>
}
