package fakecri_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/fakecri/scripted"
)

// An agent stops a container in a fake runtime. The first call is carried out, but its response is lost.
func Example() {
	machine := scripted.New(nil)
	machine.Add(fakecri.Container{ID: "c1", Name: "app", Labels: map[string]string{"io.kubernetes.pod.uid": "u1"}}, scripted.Behaviour{})
	faults := &fakecri.Plan{}
	faults.Queue("StopContainer", fakecri.Fault{Done: true, Kind: fakecri.Fail, Err: errors.New("the shim is gone")})

	server, err := fakecri.Start(fakecri.Options{Machine: machine, Faults: faults})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Stop()
	conn, err := server.Client()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	agent := runtimeapi.NewRuntimeServiceClient(conn)
	for range 2 {
		_, err = agent.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: "c1", Timeout: 30})
		fmt.Println("stop:", err)
	}
	status, err := agent.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: "c1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(status.GetStatus().GetState(), status.GetStatus().GetExitCode(), server.Calls()["StopContainer"])
	// Output:
	// stop: rpc error: code = Unknown desc = the shim is gone
	// stop: <nil>
	// CONTAINER_EXITED 143 2
}
