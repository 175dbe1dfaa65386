package main

import (
	"context"
	"fmt"
	"io"
)

// resource returns the name of the shown object for kubectl. The name contains the API group, because Kubernetes has
// kinds with the same names.
func resource(workload string) string { return workload + "s.apps.kruise.io/web" }

// invite prints three commands that the user can try on the cluster of the demonstration. If wait is true, invite
// returns when ctx ends.
func invite(ctx context.Context, out io.Writer, kubeconfig, workload string, wait bool) {
	command, object := "bin/kubectl-kruise --kubeconfig "+kubeconfig+" ", resource(workload)
	fmt.Fprintf(out, "\nThree commands to try on this cluster:\n  %swhy %s\n  %sset image %s app=example.test/app:v9 --preview\n  %srollout watch %s\n",
		command, object, command, object, command, object)
	if wait {
		fmt.Fprintln(out, "The cluster runs until you press Ctrl-C.")
		<-ctx.Done()
	}
}
