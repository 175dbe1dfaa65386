// Command sidecars runs the operator of package sidecars.
package main

import (
	"flag"
	"log"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/embed/sidecars"
)

func main() {
	var o sidecars.Options
	flag.StringVar(&o.Namespace, "namespace", "sidecars", "of the Service and the certificate")
	flag.StringVar(&o.Host, "host", "", "the IP address of the webhook, in place of its Service")
	flag.IntVar(&o.Port, "port", 9443, "of the webhook")
	flag.StringVar(&o.Probes, "probes", ":8081", "where /readyz is answered")
	flag.Parse()
	if err := sidecars.Run(ctrl.SetupSignalHandler(), ctrl.GetConfigOrDie(), o); err != nil {
		log.Fatal(err)
	}
}
