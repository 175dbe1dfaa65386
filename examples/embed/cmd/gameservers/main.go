// Command gameservers runs the operator of package gameservers.
package main

import (
	"flag"
	"log"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/embed/gameservers"
)

func main() {
	var o gameservers.Options
	flag.StringVar(&o.Namespace, "namespace", "games", "of the Service and the certificate")
	flag.StringVar(&o.Host, "host", "", "the IP address of the webhook, in place of its Service")
	flag.IntVar(&o.Port, "port", 9443, "of the webhook")
	flag.StringVar(&o.Probes, "probes", ":8081", "where /readyz is answered")
	flag.Parse()
	if err := gameservers.Run(ctrl.SetupSignalHandler(), ctrl.GetConfigOrDie(), o); err != nil {
		log.Fatal(err)
	}
}
