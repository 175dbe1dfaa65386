package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// pestered is the number of CloneSets with Pods that the attacker creates.
const pestered = 10

// pester creates CloneSets, and writes harmful values into their Pods. The controller reads these values, and each
// write causes a reconcile.
func (v *villain) pester(ctx context.Context, c *cluster, like *v1beta1.CloneSet) error {
	for i := range pestered {
		cs := like.DeepCopy()
		cs.ObjectMeta = metav1.ObjectMeta{Namespace: villains, Name: "pestered-" + strconv.Itoa(i)}
		cs.Status, cs.Spec.Replicas = v1beta1.CloneSetStatus{}, new(int32(2))
		labels := map[string]string{"app": cs.Name, "mesh": "yes"}
		cs.Spec.Selector, cs.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
		if err := c.Create(ctx, cs); err != nil {
			return fmt.Errorf("creating %s: %w", cs.Name, err)
		}
	}
	return nil
}

// annotate writes a harmful annotation to one Pod after the other, so that the owners of the Pods are reconciled.
// annotate returns the last status code.
func (v *villain) annotate(ctx context.Context, c *cluster) string {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(villains)); err != nil {
		return "no list"
	}
	answer := "no Pods"
	for i := range pods.Items {
		state := `{\"revision\":\"x\",\"updateTimestamp\":\"2026-01-01T00:00:00Z\",\"lastContainerStatuses\":null,` +
			`\"nextContainerResources\":{\"app\":{\"limits\":{\"cpu\":\"1e-200000000\"}}}}`
		body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%s",%q:"{\"mesh\":%s}","wake":%q}}}`,
			apps.AnnotationInPlaceUpdateState, state, apps.AnnotationSidecarSetInPlaceState, state, clock.RealClock{}.Now().String())
		answer = v.patch(ctx, "/api/v1/namespaces/"+villains+"/pods/"+pods.Items[i].Name, body)
		if !sleep(ctx, 100*time.Millisecond) {
			break
		}
	}
	return answer
}

// hold opens connections to the webhooks' port from another client address, and sends only the beginning of each
// request.
func (c *cluster) hold(ctx context.Context) string {
	dialer := &tls.Dialer{
		NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 10 * time.Second},
		Config:    &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // An attacker does not verify the certificate.
	}
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("localhost", strconv.Itoa(c.Port)))
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			if _, err := io.WriteString(conn, "POST /convert HTTP/1.1\r\nHost: x\r\nContent-Length: 8388608\r\n\r\n{"); err == nil {
				_, _ = io.Copy(io.Discard, conn)
			}
		})
	}
	group.Wait()
	return "held"
}

// patch patches an object, and returns the status code.
func (v *villain) patch(ctx context.Context, path, body string) string {
	return v.request(ctx, http.MethodPatch, path, "application/merge-patch+json", []byte(body))
}

// sleep waits for the duration. The result is false if ctx ends earlier.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-clock.RealClock{}.After(d):
		return true
	}
}
