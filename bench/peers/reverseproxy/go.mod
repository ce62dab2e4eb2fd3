module github.com/pawlhq/pawl/bench/peers/reverseproxy

go 1.27.3
