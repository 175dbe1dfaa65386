// Command embed runs the operator of package fleet.
package main

import (
	"log"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/embed/fleet"
)

func main() {
	if err := fleet.Run(ctrl.SetupSignalHandler(), ctrl.GetConfigOrDie()); err != nil {
		log.Fatal(err)
	}
}
