// Command nodejobs runs the operator of package nodejobs.
package main

import (
	"log"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/embed/nodejobs"
)

func main() {
	if err := nodejobs.Run(ctrl.SetupSignalHandler(), ctrl.GetConfigOrDie()); err != nil {
		log.Fatal(err)
	}
}
