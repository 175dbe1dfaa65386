package main

import (
	"context"
	"fmt"
	"io"
)

// resource is the name of a workload on a command line, with the group: Kubernetes has kinds of the same names.
func resource(workload string) string { return workload + "s.apps.kruise.io/web" }

// invite names three commands to try on the cluster of the show. If wait is true, invite returns when ctx ends.
func invite(ctx context.Context, out io.Writer, kubeconfig, workload string, wait bool) {
	command, object := "bin/kubectl-kruise --kubeconfig "+kubeconfig+" ", resource(workload)
	fmt.Fprintf(out, "\nThree commands to try on this cluster:\n  %swhy %s\n  %sset image %s app=example.test/app:v9 --preview\n  %srollout watch %s\n",
		command, object, command, object, command, object)
	if wait {
		fmt.Fprintln(out, "The cluster runs until you press Ctrl-C.")
		<-ctx.Done()
	}
}
