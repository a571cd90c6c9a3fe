// Asks cyclonus, which knows nothing of Edgewise, whether network policies let traffic pass.
//
// Each line of the input is a case in JSON: policies, and traffic between peers. Each line of the
// output is a list: for each piece of traffic, whether its ingress and its egress are allowed.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"

	"github.com/mattfenwick/cyclonus/pkg/matcher"
	networkingv1 "k8s.io/api/networking/v1"
)

type question struct {
	Policies []*networkingv1.NetworkPolicy
	Traffic  []*matcher.Traffic
}

func main() {
	cases := json.NewDecoder(bufio.NewReader(os.Stdin))
	answers := json.NewEncoder(os.Stdout)
	for cases.More() {
		var asked question
		if err := cases.Decode(&asked); err != nil {
			log.Fatal(err)
		}
		policy := matcher.BuildNetworkPolicies(false, asked.Policies)
		answer := make([][2]bool, len(asked.Traffic))
		for number, traffic := range asked.Traffic {
			result := policy.IsTrafficAllowed(traffic)
			answer[number] = [2]bool{result.Ingress.IsAllowed(), result.Egress.IsAllowed()}
		}
		if err := answers.Encode(answer); err != nil {
			log.Fatal(err)
		}
	}
}
