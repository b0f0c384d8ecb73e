"""The building blocks of EM methods: priors, posteriors, pseudo-labels, views and objectives."""
