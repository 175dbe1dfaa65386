package ownercache_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podstate"
)

func ExampleMemo() {
	var ready ownercache.Memo[*corev1.Pod, bool]
	look := func(pod *corev1.Pod) bool {
		fmt.Println("looking at", pod.Name)
		return podstate.IsReady(pod)
	}
	pods := []*corev1.Pod{newPod("default", "web-0", "owner"), newPod("default", "web-1", "owner")}
	fmt.Println(ready.Of("owner", nil, pods, look))
	pods[1] = newPod("default", "web-1", "owner") // the cache shows another version
	fmt.Println(ready.Of("owner", nil, pods, look))
	// Output:
	// looking at web-0
	// looking at web-1
	// [false false]
	// looking at web-1
	// [false false]
}

func TestMemo(t *testing.T) {
	var memo ownercache.Memo[*corev1.Pod, string]
	var asked []string
	work := func(pod *corev1.Pod) string {
		asked = append(asked, pod.Name)
		return pod.Name + "!"
	}
	a, b, again := newPod("default", "a", "x"), newPod("default", "b", "x"), newPod("default", "a", "x")
	tests := []struct {
		name        string
		owner       types.UID
		basis       any
		pods        []*corev1.Pod
		want, asked []string
	}{
		{"all are new", "x", 1, []*corev1.Pod{a, b}, []string{"a!", "b!"}, []string{"a", "b"}},
		{"none is, in whatever order", "x", 1, []*corev1.Pod{b, a}, []string{"b!", "a!"}, nil},
		{"one was replaced by an equal one", "x", 1, []*corev1.Pod{again, b}, []string{"a!", "b!"}, []string{"a"}},
		{"the answers depend on something else", "x", 2, []*corev1.Pod{again, b}, []string{"a!", "b!"}, []string{"a", "b"}},
		{"another owner", "y", 2, []*corev1.Pod{b}, []string{"b!"}, []string{"b"}},
		{"nothing is left", "x", 2, nil, nil, nil},
		{"and what was there is forgotten", "x", 2, []*corev1.Pod{b}, []string{"b!"}, []string{"b"}},
	}
	for _, tt := range tests {
		asked = nil
		if diff := cmp.Diff(tt.want, memo.Of(tt.owner, tt.basis, tt.pods, work)); diff != "" {
			t.Errorf("%s: answers (-want +got):\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(tt.asked, asked); diff != "" {
			t.Errorf("%s: worked out (-want +got):\n%s", tt.name, diff)
		}
	}
	asked = nil
	memo.Drop("x", b)
	memo.Drop("x", a) // not known
	memo.Drop("z", b)
	memo.Of("x", 2, []*corev1.Pod{b}, work)
	memo.Of("y", 2, []*corev1.Pod{b}, work)
	if diff := cmp.Diff([]string{"b"}, asked); diff != "" {
		t.Errorf("worked out after it was dropped for one owner (-want +got):\n%s", diff)
	}
	memo.Forget("x")
	memo.Forget("y")
	if n := memo.Len(); n != 0 {
		t.Errorf("%d owners are remembered after they were forgotten", n)
	}
}

// TestMemoLetsGo: replaced objects do not pile up, or a cache's whole past would stay in memory.
func TestMemoLetsGo(t *testing.T) {
	var memo ownercache.Memo[*corev1.Pod, int]
	pods := make([]*corev1.Pod, 100)
	for i := range pods {
		pods[i] = newPod("default", "p", "x")
	}
	collected := make(chan struct{}, 1000)
	work := func(pod *corev1.Pod) int {
		runtime.AddCleanup(pod, func(c chan struct{}) { c <- struct{}{} }, collected)
		return 0
	}
	for round := range 500 {
		pods[round%len(pods)] = newPod("default", "p", "x")
		memo.Of("x", nil, pods, work)
	}
	// Of 600 objects 100 are shown, and at most a sixteenth of these may be held besides.
	for deadline := time.Now().Add(10 * time.Second); len(collected) < 600-106-1; runtime.Gosched() {
		runtime.GC()
		if time.Now().After(deadline) {
			t.Fatalf("only %d of 500 replaced objects are gone", len(collected))
		}
	}
	runtime.KeepAlive(pods)
}
