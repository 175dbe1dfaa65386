package faultapi_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// firstAnswerLost is a Gate that loses the response of the first call.
type firstAnswerLost struct{ calls int }

func (f *firstAnswerLost) Pass(context.Context, faultapi.Call) faultapi.Fate {
	if f.calls++; f.calls == 1 {
		return faultapi.Fate{After: errors.New("timeout")}
	}
	return faultapi.Fate{}
}

// oneOf creates a Pod unless the cache, from which the client reads, has a Pod already.
func oneOf(ctx context.Context, c client.Client, pod *corev1.Pod) error {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.MatchingLabels(pod.Labels)); err != nil || len(pods.Items) > 0 {
		return err
	}
	return client.IgnoreAlreadyExists(c.Create(ctx, pod.DeepCopy()))
}

// A controller that needs one Pod runs three times before its cache is up to date, and once more afterwards. The
// server is in memory, and the test decides when the cache gets events and which calls fail.
func Example() {
	ctx := context.Background()
	for _, name := range []metav1.ObjectMeta{{GenerateName: "web-"}, {Name: "web-0"}} {
		server, err := faultapi.New(clientgoscheme.Scheme, func() time.Time { return time.Unix(0, 0) })
		if err != nil {
			fmt.Println(err)
			return
		}
		cache := server.Cache(nil)
		c := server.Client(&firstAnswerLost{}, cache)
		pod := &corev1.Pod{ObjectMeta: name, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}}}
		pod.Namespace, pod.Labels = "default", map[string]string{"app": "web"}

		fmt.Printf("names from %q and %q\n", name.GenerateName, name.Name)
		for range 3 {
			err := oneOf(ctx, c, pod)
			fmt.Printf("  error: %v, the cache is %d events behind\n", err, cache.Behind("pods"))
		}
		cache.Deliver("pods", cache.Behind("pods"))
		err = oneOf(ctx, c, pod)
		fmt.Printf("  error: %v, Pods: %d\n", err, len(faultapi.All[*corev1.Pod](server)))
	}
	// Output:
	// names from "web-" and ""
	//   error: timeout, the cache is 1 events behind
	//   error: <nil>, the cache is 2 events behind
	//   error: <nil>, the cache is 3 events behind
	//   error: <nil>, Pods: 3
	// names from "" and "web-0"
	//   error: timeout, the cache is 1 events behind
	//   error: <nil>, the cache is 1 events behind
	//   error: <nil>, the cache is 1 events behind
	//   error: <nil>, Pods: 1
}

// A Pod read from a cache is deleted with its UID as precondition, because a new Pod may have the same name.
func ExampleServer_Cache() {
	ctx := context.Background()
	server, err := faultapi.New(clientgoscheme.Scheme, func() time.Time { return time.Unix(0, 0) })
	if err != nil {
		fmt.Println(err)
		return
	}
	user, cache := server.Client(nil, nil), server.Cache(nil)
	controller := server.Client(nil, cache)
	pod := func() *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}},
		}
	}
	_ = user.Create(ctx, pod())
	cache.Deliver("pods", 1)
	_ = user.Delete(ctx, pod())
	_ = user.Create(ctx, pod())

	seen := pod()
	_ = controller.Get(ctx, client.ObjectKeyFromObject(seen), seen)
	err = controller.Delete(ctx, seen, client.Preconditions{UID: &seen.UID})
	fmt.Println("conflict:", apierrors.IsConflict(err), "Pods:", len(faultapi.All[*corev1.Pod](server)))
	_ = controller.Delete(ctx, seen)
	fmt.Println("and without: Pods:", len(faultapi.All[*corev1.Pod](server)))
	// Output:
	// conflict: true Pods: 1
	// and without: Pods: 0
}
