// Command agents runs the operator of package agents.
package main

import (
	"log"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/embed/agents"
)

func main() {
	if err := agents.Run(ctrl.SetupSignalHandler(), ctrl.GetConfigOrDie()); err != nil {
		log.Fatal(err)
	}
}
