// Command embed runs an operator of the packages beside it: fleet or gameservers.
package main

import (
	"flag"
	"log"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/embed/fleet"
	"github.com/workloadkit/workloadkit/examples/embed/gameservers"
)

func main() {
	operator := flag.String("operator", "fleet", "fleet or gameservers")
	o := gameservers.Options{}
	flag.StringVar(&o.Namespace, "namespace", "games", "of gameservers' Service and certificate")
	flag.StringVar(&o.Host, "host", "", "the IP address of gameservers' webhook, in place of its Service")
	flag.IntVar(&o.Port, "port", 9443, "of gameservers' webhook")
	flag.StringVar(&o.Probes, "probes", ":8081", "where gameservers answers /readyz")
	flag.Parse()
	ctx, config := ctrl.SetupSignalHandler(), ctrl.GetConfigOrDie()
	var err error
	switch *operator {
	case "fleet":
		err = fleet.Run(ctx, config)
	case "gameservers":
		err = gameservers.Run(ctx, config, o)
	default:
		log.Fatalf("-operator %q: want fleet or gameservers", *operator)
	}
	if err != nil {
		log.Fatal(err)
	}
}
