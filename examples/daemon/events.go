package daemon

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/workloadkit/workloadkit/examples/daemon/images"
	"github.com/workloadkit/workloadkit/examples/kinds/containerrecreaterequest/onnode"
	"github.com/workloadkit/workloadkit/node/agent"
	"github.com/workloadkit/workloadkit/reason"
)

// These are the source components of the agent's events, with the same names as in OpenKruise.
const (
	sourceRestarts = "kruise-daemon-crr"
	sourceImages   = "kruise-daemon-imagepuller"
	sourceProbes   = "kruise-daemon-podprobe"
)

// longestEvent is the largest length of an event's message, as the API server allows.
const longestEvent = 1024

// patience is how long sending an event may take; it is short because events are not important.
const patience = 5 * time.Second

// events sends Kubernetes events without client-go's recorder, which would cost the agent megabytes of memory. The
// recorder's rate limit and aggregation are not needed, because the agent sends few events, and never sends equal
// events within seconds.
type events struct {
	client *rest.RESTClient
	node   string
}

func newEvents(config *rest.Config, node string) (*events, error) {
	client, err := agent.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("events of the agent: %w", err)
	}
	return &events{client: client, node: node}, nil
}

// tell sends an event about a container.
func (e *events) tell(ctx context.Context, news onnode.Event) {
	e.send(ctx, sourceRestarts, ofContainer(news.Pod, news.Container), news.Type, news.Reason, news.Message)
}

// ofContainer refers to a container of a Pod.
func ofContainer(pod reason.Object, container string) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: "v1", Kind: pod.Kind, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, FieldPath: "spec.containers{" + container + "}",
	}
}

// tellOfImages sends an event about a NodeImage, or about an ImagePullJob.
func (e *events) tellOfImages(ctx context.Context, news images.Event) {
	e.send(ctx, sourceImages, news.About, news.Type, news.Reason, news.Message)
}

// send sends an event. If the API server refuses the event, the error is only logged. Events of objects without
// namespace are in the namespace default.
func (e *events) send(ctx context.Context, source string, about corev1.ObjectReference, kind, why, message string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now := metav1.Now()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cmp.Or(about.Namespace, metav1.NamespaceDefault), Name: fmt.Sprintf("%.200s.%x", about.Name, now.UnixNano()),
		},
		InvolvedObject: about,
		Type:           kind, Reason: why, Message: reason.Shorten(message, longestEvent), Source: corev1.EventSource{Component: source, Host: e.node},
		FirstTimestamp: now, LastTimestamp: now, Count: 1, ReportingController: source, ReportingInstance: e.node,
	}
	err := e.client.Post().Namespace(event.Namespace).Resource("events").Body(event).Do(ctx).Error()
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info("An event is lost", "reason", why, "about", about.Name, "err", err.Error())
	}
}
