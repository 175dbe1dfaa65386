package containerrestart_test

import (
	"fmt"
	"time"

	"github.com/workloadkit/workloadkit/node/containerrestart"
)

// A request restarts two containers in order. The first container is stopped and started again, and its new instance
// must run for ten seconds.
func Example() {
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	instance := func(name, id string, attempt int32, started time.Time) containerrestart.Instance {
		return containerrestart.Instance{ID: id, Name: name, Attempt: attempt, State: containerrestart.Running, Started: started}
	}
	app, proxy := instance("app", "a0", 0, begun.Add(-time.Hour)), instance("proxy", "p0", 0, begun.Add(-time.Hour))
	request := containerrestart.Request{
		Containers: []containerrestart.Container{{Name: "app", Before: app.ID}, {Name: "proxy", Before: proxy.ID}},
		Ordered:    true, MinStarted: 10 * time.Second, Started: begun,
	}
	show := func(observed containerrestart.Observed, now time.Time) {
		step := containerrestart.Next(request, observed, now)
		request.Containers = step.Containers // the progress, which must be written before the stop
		for _, c := range step.Containers {
			fmt.Print(c.Name, " ", c.Phase, ", ")
		}
		if fmt.Println("look again in", step.After); step.Stop != nil {
			fmt.Println("  stop", step.Stop.Instance.ID)
		}
		for _, why := range step.Why {
			fmt.Println("  " + why.String())
		}
	}

	show(containerrestart.Observed{Instances: []containerrestart.Instance{app, proxy}}, begun)

	again := instance("app", "a1", 1, begun.Add(3*time.Second))
	show(containerrestart.Observed{
		Instances: []containerrestart.Instance{again, proxy},
		Views:     []containerrestart.View{{Name: "app", ID: again.ID, Ready: true}},
	}, begun.Add(5*time.Second))

	// Output:
	// app Restarting, proxy Pending, look again in 200ms
	//   stop a0
	// app Restarting, proxy Pending, look again in 8s
	//   MinStartedAwaited: minStarted: 10s: the new instance of container app has run for 2s
	//   OrderAwaited: containers[proxy]: container app comes first
}
