package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/workloadkit/workloadkit/examples/kinds/containerrecreaterequest/onnode"
	"github.com/workloadkit/workloadkit/node/agent"
	"github.com/workloadkit/workloadkit/reason"
)

// source is the name under which the agent sends events, as OpenKruise's agent does.
const source = "kruise-daemon-crr"

// longestEvent is the largest length of an event's message, as the API server allows.
const longestEvent = 1024

// patience is how long sending an event may take; it is short because events are not important.
const patience = 5 * time.Second

// events sends Kubernetes events without client-go's recorder, which would cost the agent megabytes of memory. The
// recorder's limits are not needed: a Node has few events, and equal events never follow each other within seconds.
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

// tell sends an event. If the API server refuses the event, this is only logged.
func (e *events) tell(ctx context.Context, news onnode.Event) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now := metav1.Now()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: news.Pod.Namespace, Name: fmt.Sprintf("%.200s.%x", news.Pod.Name, now.UnixNano())},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: news.Pod.Kind, Namespace: news.Pod.Namespace, Name: news.Pod.Name, UID: news.Pod.UID,
			FieldPath: "spec.containers{" + news.Container + "}",
		},
		Type: news.Type, Reason: news.Reason, Message: reason.Shorten(news.Message, longestEvent), Source: corev1.EventSource{Component: source, Host: e.node},
		FirstTimestamp: now, LastTimestamp: now, Count: 1, ReportingController: source, ReportingInstance: e.node,
	}
	err := e.client.Post().Namespace(event.Namespace).Resource("events").Body(event).Do(ctx).Error()
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info("An event is lost", "reason", news.Reason, "pod", news.Pod.Name, "err", err.Error())
	}
}
